package codemode

import "golang.org/x/sys/unix"

const (
	machine = unix.AUDIT_ARCH_X86_64
	// foreign is from where on the numbers are those of another way to call the kernel, with 32-bit pointers.
	foreign = 0x40000000
)
