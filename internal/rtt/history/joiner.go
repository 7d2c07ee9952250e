package history

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

const (
	// maxJoined is about how many bytes the sums of an hour take in memory. That is room for thousands of prefixes. If
	// there are more, the rows of the hour are read several times, each time for other ones.
	maxJoined = 16 << 20
	// groupRows is how many rows are compressed together in an hourly file, and wait for that in memory.
	groupRows = 1 << 13
	// pageBytes is how many bytes of a column wait for that before they are compressed.
	pageBytes = 32 << 10
)

// joiner joins the rows of a day to rows of an hour.
type joiner struct {
	ctx  context.Context
	in   rowStream
	out  *parquet.GenericWriter[Row]
	room int // as maxJoined
	seed maphash.Seed

	sums map[key]*joined
	size int // of the sums
}

// writeHours writes a file with the rows of a day, joined, that replaces other files.
func writeHours(ctx context.Context, path string, d *openDay, room int, replaces []string) error {
	return create(path, func(file io.Writer) error {
		out := parquet.NewGenericWriter[Row](file, parquet.Compression(&parquet.Zstd),
			parquet.MaxRowsPerRowGroup(groupRows), parquet.PageBufferSize(pageBytes),
			parquet.KeyValueMetadata(replacesKey, strings.Join(replaces, "\n")))
		j := newJoiner(ctx, d, out, room)
		defer j.in.close()
		if err := j.run(); err != nil {
			return err
		}
		return out.Close()
	})
}

func newJoiner(ctx context.Context, d *openDay, out *parquet.GenericWriter[Row], room int) *joiner {
	return &joiner{
		ctx: ctx, in: rowStream{files: d.files}, out: out, room: room, seed: maphash.MakeSeed(),
		sums: make(map[key]*joined),
	}
}

func (j *joiner) run() error {
	for {
		r, err := j.in.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := j.hour(r.hour()); err != nil {
			return err
		}
	}
}

// hour joins the next rows, all that belong to an hour.
func (j *joiner) hour(hour time.Time) error {
	begin, low := j.in.at, uint64(0)
	for {
		high, err := j.pass(hour, low)
		if err != nil {
			return err
		}
		if err := j.write(); err != nil {
			return err
		}
		if high == math.MaxUint64 {
			return nil
		}
		low = high + 1
		if err := j.in.seek(j.ctx, begin); err != nil {
			return err
		}
	}
}

// pass joins the rows of an hour whose keys have hashes between low and high. It begins with the highest of all hashes,
// and halves what is between them whenever the sums have no more room.
func (j *joiner) pass(hour time.Time, low uint64) (high uint64, err error) {
	high = math.MaxUint64
	for {
		r, err := j.in.peek()
		if errors.Is(err, io.EOF) || err == nil && !r.hour().Equal(hour) {
			return high, nil
		}
		if err := errors.Join(err, j.ctx.Err()); err != nil {
			return 0, err
		}
		k := keyOf(r)
		if h := maphash.Comparable(j.seed, k); low <= h && h <= high {
			j.add(k, r)
		}
		for j.size > j.room && len(j.sums) > 1 && low < high {
			high = low + (high-low)/2
			j.dropAbove(high)
		}
		j.in.skip()
	}
}

func (j *joiner) add(k key, r *Row) {
	sum := j.sums[k]
	if sum == nil {
		sum = join(r)
		j.sums[k] = sum
	} else {
		j.size -= sum.size()
		sum.add(r)
	}
	j.size += sum.size()
}

// dropAbove drops the sums whose keys have higher hashes: a later pass joins them.
func (j *joiner) dropAbove(high uint64) {
	maps.DeleteFunc(j.sums, func(k key, sum *joined) bool {
		drop := maphash.Comparable(j.seed, k) > high
		if drop {
			j.size -= sum.size()
		}
		return drop
	})
}

// write writes the sums, and forgets them.
func (j *joiner) write() error {
	rows := make([]Row, 0, readRows)
	for _, k := range slices.SortedFunc(maps.Keys(j.sums), key.compare) {
		if rows = append(rows, j.sums[k].result()); len(rows) == cap(rows) {
			if _, err := j.out.Write(rows); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	clear(j.sums)
	j.size = 0
	_, err := j.out.Write(rows)
	return err
}

// rowStream reads the rows of several files, one after the other, and can go back.
type rowStream struct {
	files  []openFile
	at     place // of the row that peek returns
	reader *rowReader
	rows   []Row // that are read already
}

// place is a row of a file of several ones.
type place struct{ file, row int }

// peek returns the next row, or io.EOF. It can be used until skip is called.
func (s *rowStream) peek() (*Row, error) {
	for len(s.rows) == 0 {
		if s.at.file == len(s.files) {
			return nil, io.EOF
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
	return &s.rows[0], nil
}

// fill reads rows, or goes on to the next file.
func (s *rowStream) fill() (err error) {
	if s.reader == nil {
		if s.reader, err = newRowReader(s.files[s.at.file]); err != nil {
			return err
		}
	}
	s.rows, err = s.reader.next()
	if errors.Is(err, io.EOF) {
		s.close()
		s.at = place{file: s.at.file + 1}
		return nil
	}
	return err
}

// skip goes on to the next row.
func (s *rowStream) skip() {
	s.rows = s.rows[1:]
	s.at.row++
}

// seek goes to a place.
func (s *rowStream) seek(ctx context.Context, to place) error {
	s.close()
	s.at = place{file: to.file}
	for s.at.row < to.row {
		_, err := s.peek()
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		s.skip()
	}
	return nil
}

// close closes what is being read. The files stay open.
func (s *rowStream) close() {
	if s.reader != nil {
		s.reader.Close()
	}
	s.reader, s.rows = nil, nil
}

// syncFolder makes sure that the names in a folder are on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
