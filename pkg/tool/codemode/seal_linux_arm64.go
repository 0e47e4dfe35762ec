package codemode

import "golang.org/x/sys/unix"

const (
	machine = unix.AUDIT_ARCH_AARCH64
	// foreign is from where on there is no system call.
	foreign = 0x40000000
)
