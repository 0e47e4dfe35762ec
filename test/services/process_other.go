//go:build !linux

package services

import "os/exec"

// endWithParent does nothing where the kernel offers no such tie: a killed program leaves its servers behind.
func endWithParent(*exec.Cmd) {}
