package modelserver

import (
	"io"
	"net/http"
)

// controlError is the body of a refused control request.
type controlError struct {
	Error string `json:"error"`
}

// maxScripts bounds the size of scripts that are put over HTTP.
const maxScripts = 16 << 20

// putScripts loads the scripts in the body; ?prefix= is put before their model ids.
func (s *Server) putScripts(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxScripts))
	if err != nil {
		writeJSON(w, http.StatusRequestEntityTooLarge, controlError{"the scripts could not be read: " + err.Error()})
		return
	}
	ids, err := s.LoadYAML(raw, r.URL.Query().Get("prefix"))
	if err != nil {
		writeJSON(w, http.StatusBadRequest, controlError{err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string][]string{"models": ids})
}

// scriptState is what GET /_scripts says of a model.
type scriptState struct {
	Model string `json:"model"`
	// Used is how often each reply was given, in the order of the script.
	Used []int `json:"used"`
	// Left is how many replies that do not repeat are still to be given.
	Left int `json:"left"`
}

func (s *Server) getScripts(w http.ResponseWriter, _ *http.Request) {
	states := []scriptState{}
	for _, m := range s.loaded() {
		st := scriptState{Model: m.name, Used: m.counts()}
		for i, n := range st.Used {
			if n == 0 && !m.script.Replies[i].Repeat {
				st.Left++
			}
		}
		states = append(states, st)
	}
	writeJSON(w, http.StatusOK, states)
}

// deleteScripts unloads the model that ?model= names.
func (s *Server) deleteScripts(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("model")
	if id == "" {
		writeJSON(w, http.StatusBadRequest, controlError{"?model= is missing"})
		return
	}
	if !s.Unload(id) {
		writeJSON(w, http.StatusNotFound, controlError{"no model " + id + " is loaded"})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// getRequests lists what was recorded for the model that ?model= names.
func (s *Server) getRequests(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("model")
	if id == "" {
		writeJSON(w, http.StatusBadRequest, controlError{"?model= is missing"})
		return
	}
	writeJSON(w, http.StatusOK, s.Requests(id))
}
