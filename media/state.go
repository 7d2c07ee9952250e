package media

// Arena allocates the state that a second sender, the kernel's, may share.
type Arena interface{}
