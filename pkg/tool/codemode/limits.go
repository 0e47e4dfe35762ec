package codemode

import "time"

// Limits bound one execution.
type Limits struct {
	// CodeBytes is how long the code may be.
	CodeBytes int `json:"codeBytes"`
	// Calls is how many calls the code may make in all, Parallel how many of them go on at the same time.
	Calls    int `json:"calls"`
	Parallel int `json:"parallel"`
	// Busy is how long the interpreter may compute, waiting for tools not counted; Wall bounds everything.
	Busy time.Duration `json:"busy"`
	Wall time.Duration `json:"wall"`
	// MemoryBytes is what the interpreter's objects may take.
	MemoryBytes int64 `json:"memoryBytes"`
	// ResultBytes and LogBytes bound what the model is given.
	ResultBytes int `json:"resultBytes"`
	LogBytes    int `json:"logBytes"`
}

// DefaultLimits are the limits of an installation.
func DefaultLimits() Limits {
	return Limits{
		CodeBytes: 64 << 10, Calls: 128, Parallel: 8, Busy: 10 * time.Second, Wall: 5 * time.Minute,
		MemoryBytes: 64 << 20, ResultBytes: 64 << 10, LogBytes: 16 << 10,
	}
}

// withDefaults replaces what is not set.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	pick := func(value *int, fallback int) {
		if *value <= 0 {
			*value = fallback
		}
	}
	pick(&l.CodeBytes, d.CodeBytes)
	pick(&l.Calls, d.Calls)
	pick(&l.Parallel, d.Parallel)
	pick(&l.ResultBytes, d.ResultBytes)
	pick(&l.LogBytes, d.LogBytes)
	if l.Busy <= 0 {
		l.Busy = d.Busy
	}
	if l.Wall <= 0 {
		l.Wall = d.Wall
	}
	if l.MemoryBytes <= 0 {
		l.MemoryBytes = d.MemoryBytes
	}
	return l
}
