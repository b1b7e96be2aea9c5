//go:build !linux

package cmd

func clockState() (text string, synced, known bool) { return "", false, false }
