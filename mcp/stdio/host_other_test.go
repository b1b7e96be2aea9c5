//go:build unix && !linux

package stdio

func hostMain() {}
