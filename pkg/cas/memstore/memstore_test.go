package memstore_test

import (
	"testing"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/cas/castest"
	"github.com/agentloop/agentloop/pkg/cas/memstore"
)

func TestConformance(t *testing.T) {
	castest.Run(t, func(*testing.T) cas.Store { return memstore.New() })
}
