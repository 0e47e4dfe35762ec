package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agentloop/agentloop/pkg/tool"
)

// Set is the tools of a run's MCP servers.
type Set struct {
	opts        Options
	close       func() // lets go of connections that are the set's own
	servers     map[string]*server
	definitions []tool.Definition
	byName      map[string]*entry
}

var _ tool.Set = (*Set)(nil)

// entry is one callable tool.
type entry struct {
	definition tool.Definition
	// server is nil for a known tool whose server is not configured any more.
	server *server

	once    sync.Once
	checker *checker
}

// Connect asks every server for its tools, all at the same time, and returns the set. Problems are facts for people:
// servers that are missing under the policy Continue, names in lists that stand for nothing, tools that cannot be
// offered. The error is an *UnavailableError when a server with the policy Fail is missing, or ctx's cause; then there
// is no set.
func Connect(ctx context.Context, servers []ServerConfig, opts Options) (*Set, []ServerProblem, error) {
	opts = opts.withDefaults()
	set := &Set{servers: map[string]*server{}, byName: map[string]*entry{}, close: func() {}}
	if opts.Connections == nil {
		opts.Connections = NewConnections(opts.Addresses)
		set.close = opts.Connections.Close
	}
	set.opts = opts
	found := make([]discovery, len(servers))
	var group sync.WaitGroup
	for i, cfg := range servers {
		s, problem := set.add(cfg.withDefaults())
		if problem != nil {
			found[i] = discovery{policy: cfg.OnUnavailable, problems: []ServerProblem{*problem}}
			continue
		}
		if opts.Known != nil {
			continue
		}
		group.Go(func() { found[i] = discoverAll(ctx, s) })
	}
	group.Wait()
	problems, err := set.collect(found)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, problems, errors.Join(err, set.Close())
	}
	if opts.Known != nil {
		set.adopt(opts.Known)
	}
	return set, problems, nil
}

// add prepares one server, without talking to it.
func (s *Set) add(cfg ServerConfig) (*server, *ServerProblem) {
	invalid := func(text string) *ServerProblem {
		return &ServerProblem{Server: cfg.Name, Reason: ReasonInvalidConfig, Message: text, Unavailable: true}
	}
	if s.servers[cfg.Name] != nil {
		return nil, invalid("the name is used twice")
	}
	if err := cfg.check(); err != nil {
		return nil, invalid(err.Error())
	}
	srv := newServer(cfg, s.opts)
	s.servers[cfg.Name] = srv
	return srv, nil
}

// discovery is what one server gave.
type discovery struct {
	policy      OnUnavailable
	server      *server
	definitions []tool.Definition
	problems    []ServerProblem
}

func discoverAll(ctx context.Context, s *server) discovery {
	definitions, problems, err := s.discover(ctx)
	d := discovery{policy: s.cfg.OnUnavailable, server: s, definitions: definitions, problems: problems}
	if err != nil && ctx.Err() == nil {
		d.problems = append(d.problems, s.problem(err))
	}
	return d
}

// collect puts the servers' tools together in one stable order and decides whether the set may be used.
func (s *Set) collect(found []discovery) ([]ServerProblem, error) {
	var problems, missing []ServerProblem
	for _, d := range found {
		for _, p := range d.problems {
			problems = append(problems, p)
			if p.Unavailable && d.policy != Continue {
				missing = append(missing, p)
			}
		}
		for _, definition := range d.definitions {
			if s.byName[definition.Name] != nil {
				problems = append(problems, d.server.skipped(definition.RemoteName, fmt.Sprintf("its name %s is taken by another tool", definition.Name)))
				continue
			}
			s.byName[definition.Name] = &entry{definition: definition, server: d.server}
			s.definitions = append(s.definitions, definition)
		}
	}
	slices.SortFunc(s.definitions, func(a, b tool.Definition) int { return strings.Compare(a.Name, b.Name) })
	if len(missing) > 0 {
		return problems, &UnavailableError{Problems: missing}
	}
	return problems, nil
}

// adopt takes the definitions of an earlier set. Tools without a server belong to others.
func (s *Set) adopt(known []tool.Definition) {
	for _, definition := range known {
		if definition.Server == "" || s.byName[definition.Name] != nil {
			continue
		}
		s.byName[definition.Name] = &entry{definition: definition, server: s.servers[definition.Server]}
		s.definitions = append(s.definitions, definition)
	}
}

// Definitions implements tool.Set: sorted by name, or as they were known. The caller owns the slice, not what the
// definitions point to.
func (s *Set) Definitions() []tool.Definition { return slices.Clone(s.definitions) }

// Close implements tool.Set: running calls end with an error result, sessions are ended on their servers.
func (s *Set) Close() error {
	errs := make([]error, 0, len(s.servers))
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, srv := range s.servers {
		group.Go(func() {
			err := srv.close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	group.Wait()
	s.close()
	return errors.Join(errs...)
}
