//go:build unix

package stdio
func hostMain() {}
