package history

import "time"

// Query selects the rows of a history that began at or after From and before To.
type Query struct {
	From, To time.Time
	// Prefix is the prefix or the group that is asked for, or the label of one aggregate, which also has the keys that
	// tell it apart from others of the same prefix. "": all of them.
	Prefix string
}

// read calls fn for each row that is asked for, as Read does.
func (q Query) read(dir string, fn func(*Row) error) error {
	return Read(dir, q.From, q.To, func(r *Row) error {
		if q.Prefix != "" && r.Prefix != q.Prefix && r.Label() != q.Prefix {
			return nil
		}
		return fn(r)
	})
}
