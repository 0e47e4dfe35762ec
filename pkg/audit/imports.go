package audit

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/agentloop/agentloop/pkg/cas"
	"github.com/agentloop/agentloop/pkg/legacy"
)

// maxImported bounds one imported file, in bytes.
const maxImported = 16 << 30

// imports reads what was imported from earlier versions. Nothing in the streams names it: its lists are found by looking.
func (a *Audit) imports(ctx context.Context) error {
	scope := a.Scope.In(cas.TreeManifests)
	var lists []cas.Ref
	err := a.Store.List(ctx, scope, func(ref cas.Ref) error {
		lists = append(lists, cas.Ref{Digest: ref.Digest})
		return nil
	})
	if err != nil {
		return fmt.Errorf("list imports: %w", err)
	}
	read := map[cas.Digest]bool{}
	for _, ref := range lists {
		raw, err := a.Store.Get(ctx, scope, ref)
		var manifest legacy.Manifest
		if err == nil {
			if manifest, err = legacy.DecodeManifest(raw); err != nil {
				err = fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
			}
		}
		if err := a.imported(ref.Digest, "the list", err); err != nil {
			return err
		}
		for _, file := range manifest.Files {
			if read[file.Body.Digest] {
				continue
			}
			read[file.Body.Digest] = true
			if err := a.imported(file.Body.Digest, file.Path, a.file(ctx, file)); err != nil {
				return err
			}
		}
	}
	return nil
}

// file reads an imported file again.
func (a *Audit) file(ctx context.Context, file legacy.File) error {
	sum := sha256.New()
	_, err := cas.CopyBody(ctx, sum, a.Store, cas.BodyRequest{Scope: a.Scope.In(cas.TreeFiles), Ref: file.Body, Limit: maxImported})
	if err != nil {
		return err
	}
	var digest [sha256.Size]byte
	copy(digest[:], sum.Sum(nil))
	if cas.FromSum(digest) != file.SHA256 {
		return fmt.Errorf("%w: other bytes than were imported", cas.ErrCorrupt)
	}
	a.sum.Imported++
	return nil
}

// imported reports what is wrong with an imported file.
func (a *Audit) imported(digest cas.Digest, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, _, known := codeOf(err); !known {
		return fmt.Errorf("read an imported file: %w", err)
	}
	return a.problem(Problem{Code: CodeImport, Digest: digest, Path: path, Message: "An imported file is missing or does not have the bytes that were imported."})
}
