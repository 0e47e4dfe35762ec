package openairesponses

import "encoding/json"

// event is what is read of a stream event. The SDK's type has every field of every item kind and takes many times as long
// to decode.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  int64           `json:"output_index"`
	ContentIndex int64           `json:"content_index"`
	SummaryIndex int64           `json:"summary_index"`
	Delta        string          `json:"delta"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	Arguments    string          `json:"arguments"`
	Item         item            `json:"item"`
	Response     response        `json:"response"`
	Error        json.RawMessage `json:"error"`
}

type item struct {
	ID               string `json:"id"`
	Type             string `json:"type"`
	Phase            string `json:"phase"`
	CallID           string `json:"call_id"`
	Name             string `json:"name"`
	Arguments        string `json:"arguments"`
	EncryptedContent string `json:"encrypted_content"`
	Summary          []part `json:"summary"`
	Content          []part `json:"content"`
}

type part struct {
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

type response struct {
	ID                string `json:"id"`
	Status            string `json:"status"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []item `json:"output"`
}
