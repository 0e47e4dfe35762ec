package services

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the server when the starting program dies without stopping it.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
