package trial

// Programs are the files that a Stage starts.
type Programs struct {
	Sluice    string // the placeholder {sluice} of a system
	Generator string // must call load.Run when it is started as "Generator bench-load JSON"
}
