package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// process reads what Linux knows about a process.
type process struct{ pid int }

// clockTick is the unit of processor times in /proc: 100 a second on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is the processor time that the process has used.
func (p process) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name in parentheses, may have spaces.
	_, after, found := bytes.Cut(raw, []byte(") "))
	fields := strings.Fields(string(after))
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has an unknown form", p.pid)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", p.pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// resident is the memory that the process has now, and the most that it had since the last call of forget, in bytes.
func (p process) resident() (now, most int64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, 0, err
	}
	for _, line := range strings.Split(string(raw), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "VmRSS:" && fields[0] != "VmHWM:" {
			continue
		}
		kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/%d/status: %w", p.pid, err)
		}
		if fields[0] == "VmRSS:" {
			now = kilobytes << 10
		} else {
			most = kilobytes << 10
		}
	}
	return now, most, nil
}

// forget makes resident count its maximum anew.
func (p process) forget() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0)
}
