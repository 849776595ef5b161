package fleet

// Note is a setting of the fleet file that is valid and has no effect yet.
type Note struct {
	Line int    `json:"line"` // from 1
	Col  int    `json:"col"`  // in characters, from 1
	Path string `json:"path"`
	Text string `json:"text"`
}
