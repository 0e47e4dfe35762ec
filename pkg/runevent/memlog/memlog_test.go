package memlog_test

import (
	"testing"

	"github.com/agentloop/agentloop/pkg/runevent"
	"github.com/agentloop/agentloop/pkg/runevent/logtest"
	"github.com/agentloop/agentloop/pkg/runevent/memlog"
)

func TestConformance(t *testing.T) {
	logtest.Run(t, func(*testing.T) runevent.Log { return memlog.New() })
}
