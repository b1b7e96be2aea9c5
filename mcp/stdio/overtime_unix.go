//go:build unix

package stdio

import "syscall"

// overTime is by what the system ends a process that has used up its processor time.
const overTime = syscall.SIGXCPU
