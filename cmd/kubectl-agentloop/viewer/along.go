package viewer

import "context"

// Along reads a session's trajectory page by page, and later what was added or changed since.
type Along struct {
	Client  *Client
	Session string
	// Notices are those of the latest page.
	Notices []Notice
	cursor  string
}

// Skip goes to the end of what is there, so that Next tells only of what comes after.
func (a *Along) Skip(ctx context.Context) error {
	return a.Next(ctx, func(Entry) error { return nil })
}

// Next hands on every entry that was added or changed since the last call, in order; those without a time last. When the
// history was replaced it begins anew.
func (a *Along) Next(ctx context.Context, each func(Entry) error) error {
	for {
		page, err := a.Client.Trajectory(ctx, a.Session, a.cursor)
		switch {
		case Expired(err) && a.cursor != "":
			a.cursor = ""
			continue
		case err != nil:
			return err
		}
		a.Notices = page.Notices
		for _, entries := range [][]Entry{page.Entries, page.Untimed} {
			for _, entry := range entries {
				if err := each(entry); err != nil {
					return err
				}
			}
		}
		if page.Next == "" {
			a.cursor = page.Cursor
			return nil
		}
		a.cursor = page.Next
	}
}
