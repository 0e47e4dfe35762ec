module github.com/agentloop/agentloop/hack/vuln

go 1.26.0

// The data of known vulnerabilities is the folder data/osv of golang.org/x/vulndb, which govulncheck reads as it is. The module
// is pinned by the smallest of its programs, which nobody runs.
tool (
	golang.org/x/vuln/cmd/govulncheck
	golang.org/x/vulndb/cmd/forks
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/telemetry v0.0.0-20261010193011-f71dc92da45e // indirect
	golang.org/x/tools v0.52.0 // indirect
	golang.org/x/vuln v1.9.0 // indirect
	golang.org/x/vulndb v0.0.0-20261105234957-e22db6528018 // indirect
)
