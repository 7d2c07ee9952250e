package traffic

import (
	"cmp"
	"time"
)

// event is a packet, or the next step of a conversation.
type event struct {
	at     time.Duration
	number uint64 // events of one time stay in the order in which they were added
	talk   conversation
	frame  []byte
	length int
}

// queue is a heap of events, the next one first.
type queue []event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(event)) }

func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].number, q[j].number)) < 0
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
