// Command releasenotes writes what changed between two commits, from their subjects and trailers.
//
// Guarantees: every commit between the two is counted once; what breaks, what is stored in a new format and what mends a
// vulnerability stands first, from the trailers Breaking, Stored-Format and Security; one whose subject names no part of
// the project stands under Other, so that nothing is left out unseen. The same commits give the same notes.
//
//	releasenotes [-repo FOLDER] [-from TAG] [-to COMMIT] [-version v1.2.3]
//
// Without -from, the notes begin at the latest tag before -to, or with the first commit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	var r request
	flag.StringVar(&r.repo, "repo", ".", "folder of the repository")
	flag.StringVar(&r.from, "from", "", "tag or commit after which the notes begin; the latest tag before -to when empty")
	flag.StringVar(&r.to, "to", "HEAD", "tag or commit with which the notes end")
	flag.StringVar(&r.version, "version", "", "version that the notes are for; the tag of -to, or Unreleased")
	flag.Parse()
	notes, err := r.notes()
	if err != nil {
		fmt.Fprintln(os.Stderr, "releasenotes:", err)
		os.Exit(1)
	}
	fmt.Print(notes)
}

// request says between which commits the notes are made.
type request struct {
	repo, from, to, version string
}

func (r request) notes() (string, error) {
	if r.from == "" {
		// A tag of the commit itself is what the notes are for, so look before it.
		r.from, _ = r.git("describe", "--tags", "--abbrev=0", r.to+"^")
	}
	if r.version == "" {
		r.version = "Unreleased"
		if tag, err := r.git("describe", "--tags", "--exact-match", r.to); err == nil {
			r.version = tag
		}
	}
	date, err := r.git("log", "-1", "--format=%cs", r.to)
	if err != nil {
		return "", err
	}
	span := r.to
	if r.from != "" {
		span = r.from + ".." + r.to
	}
	// The trailers are git's own reading of the message; a subject and they cannot hold the two separators.
	log, err := r.git("log", "--no-merges", "--reverse", "--format=%h%x1f%s%x1f%(trailers:unfold=true)%x1e", span)
	if err != nil {
		return "", err
	}
	commits := parse(log)
	if len(commits) == 0 {
		return "", fmt.Errorf("no commits in %s", span)
	}
	return render(heading{version: r.version, date: date, from: r.from}, commits), nil
}

func (r request) git(args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "git", append([]string{"-C", r.repo}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
