package media

import (
	"sync"

	"sluice/clock"
)

// arrivals are when the bytes of a log came.
type arrivals struct {
	mu    sync.Mutex
	marks []mark
}

// mark says that the bytes between the mark before and end came at a time.
type mark struct {
	end int64 // log offset
	at  clock.Time
}

// maxMarks bounds the marks of a log. When there are as many, neighbours are joined.
const maxMarks = 64

// note notes that the log has grown.
func (a *arrivals) note(end int64, at clock.Time) {
	if at == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.marks); n > 0 && a.marks[n-1].end >= end {
		return
	}
	if len(a.marks) == maxMarks {
		for i := range maxMarks / 2 {
			a.marks[i] = mark{a.marks[2*i+1].end, a.marks[2*i].at}
		}
		a.marks = a.marks[:maxMarks/2]
	}
	a.marks = append(a.marks, mark{end, at})
}

// of returns when the byte at an offset came, or 0 if that is not known.
func (a *arrivals) of(offset int64) clock.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.marks) - 1; i >= 0; i-- {
		if a.marks[i].end <= offset {
			if i+1 < len(a.marks) {
				return a.marks[i+1].at
			}
			return 0
		}
	}
	if len(a.marks) > 0 {
		return a.marks[0].at
	}
	return 0
}
