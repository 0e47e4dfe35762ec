package options

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is how much of what the process may have Go's own memory gets, in percent. The rest is for what the kernel
// counts besides: sockets, page tables, parts of the program's file.
const memoryShare = 85

// LimitMemory has garbage collected in time when the process comes near to the memory that it may have: a container's limit
// kills, and says nothing before. GOMEMLIMIT has the last word.
func LimitMemory(logger *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit, err := memoryLimit(os.DirFS("/"))
	if err != nil {
		logger.Debug("the memory limit of the process is not known", "error", err)
		return
	}
	if limit == 0 {
		return
	}
	debug.SetMemoryLimit(limit / 100 * memoryShare)
	logger.Info("memory is limited", "limit", limit, "goMemoryLimit", limit/100*memoryShare)
}

// unlimited is from where on a limit is none: the first kind of control groups has a number for that near to the largest.
const unlimited = 1 << 60

// memoryLimit is the smallest limit of the control groups that the process is in, in bytes; 0 for none.
func memoryLimit(root fs.FS) (int64, error) {
	raw, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, err
	}
	least := int64(unlimited)
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			return 0, fmt.Errorf("unknown line %q about the control group", line)
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		switch {
		case fields[1] == "memory":
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		limit, err := hierarchyLimit(root, folder, fields[2], file)
		if err != nil {
			return 0, err
		}
		least = min(least, limit)
	}
	if least == unlimited {
		return 0, nil
	}
	return least, nil
}

// hierarchyLimit is the smallest limit from a group up to the root of what is mounted. Where a container sees its own group
// as that root, the group's full name is nowhere to be found.
func hierarchyLimit(root fs.FS, folder, group, file string) (int64, error) {
	least := int64(unlimited)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		raw, err := fs.ReadFile(root, path.Join(folder, at, file))
		switch text := string(bytes.TrimSpace(raw)); {
		case errors.Is(err, fs.ErrNotExist), text == "max":
		case err != nil:
			return 0, err
		default:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory limit of the control group: %w", err)
			}
			least = min(least, n)
		}
		if at == "/" {
			return least, nil
		}
	}
}
