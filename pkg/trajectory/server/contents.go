package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // the formats whose size can be read
	_ "image/jpeg" // before a browser unpacks it
	_ "image/png"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/trajectory"
)

const (
	// textPage is how much of a long text one answer has, in bytes.
	textPage = 1 << 20
	// maxImage bounds an image that is shown, in bytes, and maxImageSide its width and height, in pixels.
	maxImage     = 8 << 20
	maxImageSide = 8000
	// maxPlace bounds the number of a message or of a block in an address.
	maxPlace = 1_000_000
)

// imageTypes are the kinds of images that are shown. None of them can hold a script.
var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// entryOf authenticates the caller and decides whether they may read the session, as enter does, and returns the entry
// that the request names and its other parameters.
func (s *Server) entryOf(ctx context.Context, r *http.Request, others ...string) (sessionID, string, url.Values, error) {
	id, err := s.enter(ctx, r, "trajectory")
	if err != nil {
		return id, "", nil, err
	}
	values, err := params(r, append(others, "id")...)
	if err != nil {
		return id, "", nil, err
	}
	entry := values.Get("id")
	if entry == "" || len(entry) > maxEntryID {
		return id, "", nil, badRequest("id is the id of an entry.")
	}
	return id, entry, values, nil
}

// from is the cursor of a page of a text.
type from struct {
	Version int    `json:"v"`
	Session string `json:"s"`
	Entry   string `json:"e"`
	Offset  int    `json:"o"`
}

// wholeText is one page of a text.
type wholeText struct {
	EntryID     string              `json:"entryId"`
	Text        string              `json:"text"`
	Offset      int                 `json:"offset"`
	Size        int                 `json:"size"`
	Next        string              `json:"next,omitempty"`
	Unavailable string              `json:"unavailable,omitempty"`
	Notices     []trajectory.Notice `json:"notices"`
}

// getText answers with all of the text of a result that was cut, a page at a time.
func (s *Server) getText(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, entry, values, err := s.entryOf(ctx, r, "cursor")
	if err != nil {
		return err
	}
	session, err := s.find(ctx, id, false)
	if err != nil {
		return err
	}
	place, err := fromOf(values, session, entry)
	if err != nil {
		return err
	}
	tag := s.tag(r, session)
	if session.index.Has(entry) && unchanged(w, r, tag) {
		return nil
	}
	text, notice, err := s.reader.WholeText(ctx, session.index, entry)
	if err != nil {
		return err
	}
	page := wholeText{EntryID: entry, Notices: []trajectory.Notice{}}
	if notice != nil {
		page.Notices, page.Unavailable = append(page.Notices, *notice), notice.Message
		return tagged(w, "", page) // an object that is missing now may be there again
	}
	if place.Offset > len(text) || place.Offset < len(text) && !utf8.RuneStart(text[place.Offset]) {
		return trajectory.ErrCursor
	}
	page.Size, page.Offset = len(text), place.Offset
	page.Text = message.Beginning(text[place.Offset:], textPage)
	if end := place.Offset + len(page.Text); end < len(text) {
		place.Offset = end
		raw, err := json.Marshal(place)
		if err != nil {
			return fmt.Errorf("%w: %w", trajectory.ErrNotJSON, err)
		}
		page.Next = base64.RawURLEncoding.EncodeToString(raw)
	}
	return tagged(w, tag, page)
}

// fromOf is where a page of a text begins.
func fromOf(values url.Values, session found, entry string) (from, error) {
	place := from{Version: 1, Session: session.index.Scope.Session, Entry: entry}
	return placeOf(values, place, func(given from) (int, bool) {
		return given.Offset, given.Version == place.Version && given.Session == place.Session && given.Entry == place.Entry
	})
}

// getImage answers with an image that a message of an entry names by reference.
func (s *Server) getImage(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := s.bounded(w, r)
	defer cancel()
	id, entry, values, err := s.entryOf(ctx, r, "message", "block")
	if err != nil {
		return err
	}
	place, err := imagePlaceOf(values)
	if err != nil {
		return err
	}
	session, err := s.find(ctx, id, false)
	if err != nil {
		return err
	}
	tag := s.tag(r, session)
	if session.index.Has(entry) && unchanged(w, r, tag) {
		return nil
	}
	data, notice, err := s.reader.Image(ctx, session.index, entry, place, maxImage)
	switch {
	case errors.Is(err, trajectory.ErrTooLarge):
		return notShown("It has more bytes than an image may have here.")
	case err != nil:
		return err
	case notice != nil:
		return newProblem(http.StatusNotFound, string(notice.Code), "The image cannot be read", notice.Message)
	}
	kind := http.DetectContentType(data)
	if !imageTypes[kind] {
		return notShown("Only PNG, JPEG, GIF and WebP are shown.")
	}
	if !viewable(kind, data) {
		return notShown(fmt.Sprintf("It is damaged, or more than %d pixels wide or high.", maxImageSide))
	}
	w.Header().Set("ETag", tag)
	write(w, kind, data)
	return nil
}

func imagePlaceOf(values url.Values) (trajectory.ImagePlace, error) {
	place := trajectory.ImagePlace{Message: -1}
	var err error
	if values.Has("message") {
		if place.Message, err = numberOf(values, "message"); err != nil {
			return place, err
		}
	}
	place.Block, err = numberOf(values, "block")
	return place, err
}

// numberOf is a parameter that counts from 0.
func numberOf(values url.Values, name string) (int, error) {
	n, err := strconv.Atoi(values.Get(name))
	if err != nil || n < 0 || n > maxPlace {
		return 0, badRequest(fmt.Sprintf("%s is a number from 0 to %d.", name, maxPlace))
	}
	return n, nil
}

func notShown(why string) *problem {
	return newProblem(http.StatusNotFound, "notShown", "This image is not shown", why)
}

// viewable says that an image says how large it is, and that it is not too large to be unpacked.
func viewable(kind string, data []byte) bool {
	width, height := 0, 0
	if kind == "image/webp" {
		width, height = webpSize(data)
	} else if config, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil {
		width, height = config.Width, config.Height
	}
	return width > 0 && height > 0 && width <= maxImageSide && height <= maxImageSide
}

// webpSize reads width and height of a WebP file (RFC 9649), which the standard library cannot; 0 when it says none.
func webpSize(data []byte) (width, height int) {
	const needed = 30
	if len(data) < needed {
		return 0, 0
	}
	little := func(at, bytes int) int {
		n := 0
		for i := range bytes {
			n |= int(data[at+i]) << (8 * i)
		}
		return n
	}
	switch string(data[12:16]) {
	case "VP8 ": // a frame's tag, its start code, then both sizes with a scale in the upper two bits
		return little(26, 2) & 0x3fff, little(28, 2) & 0x3fff
	case "VP8L": // a signature, then fourteen bits each of width and height, less one
		bits := little(21, 4)
		return bits&0x3fff + 1, bits>>14&0x3fff + 1
	case "VP8X": // flags, then the size of the canvas, less one
		return little(24, 3) + 1, little(27, 3) + 1
	}
	return 0, 0
}
