package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// chaosList is the --chaos that ends nothing and writes each point to the log.
const chaosList = "list"

// chaosPoint makes the hook that ends the process at a named point, as a kill would.
func chaosPoint(spec string, logger *slog.Logger) (func(string), error) {
	switch spec {
	case "":
		return nil, nil //nolint:nilnil // no hook
	case chaosList:
		return func(reached string) { logger.Info("chaos point", "point", reached) }, nil
	}
	point, times, found := strings.Cut(spec, "=")
	n := 1
	if found {
		var err error
		if n, err = strconv.Atoi(times); err != nil || n < 1 {
			return nil, fmt.Errorf("--chaos=%s: use POINT or POINT=N with N from 1, or list", spec)
		}
	}
	var mu sync.Mutex
	return func(reached string) {
		if reached != point {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing is left to report a failure to
			select {}
		}
	}, nil
}
