package cas

// SegmentLength is the number of message references in one segment object. Segments are aligned to history indexes, so
// that successive inputs and states share all but their last one.
const SegmentLength = 32

// MessageRef names one stored message. Without Index the object is the message itself; with Index it is the Index-th
// message inside a container object (the results of a state's step, or the message of a model action at index 0).
type MessageRef struct {
	Digest Digest `json:"d"`
	Index  *int   `json:"i,omitempty"`
}

// Segment is a stored list of message references.
type Segment struct {
	Messages []MessageRef `json:"messages"`
}

// MessageList is how a manifest holds a list of messages: whole segments first, then the tail. Every segment but the
// last one that an input closed early holds SegmentLength references.
type MessageList struct {
	Segments []Ref        `json:"segments,omitempty"`
	Tail     []MessageRef `json:"tail,omitempty"`
	// Count is the number of messages in all.
	Count int `json:"count"`
}
