package inside

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/relay"
	"sluice/server"
)

// TestEveryFieldIsFilled gives each field of what a relay says of itself a value, and has more of everything than a
// snapshot lists: a field that stays zero is one to which nothing is copied.
func TestEveryFieldIsFilled(t *testing.T) {
	var all struct {
		activity   server.Activity
		subscriber relay.SubscriberStatus
	}
	(&numbers{}).fill(reflect.ValueOf(&all.activity).Elem())
	(&numbers{}).fill(reflect.ValueOf(&all.subscriber).Elem())
	requireFilled(t, "snapshot", reflect.ValueOf(snapshotOf(&all.activity)))
	requireFilled(t, "subscriber", reflect.ValueOf(subscriberOf(&all.subscriber)))
}

// numbers fills values, each number with another one.
type numbers struct{ n int64 }

func (f *numbers) fill(v reflect.Value) {
	f.n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprint(f.n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(f.n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), maxTracks+1, maxTracks+1))
		f.elements(v)
	case reflect.Array:
		f.elements(v)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(f.n, 0)))
			return
		}
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("numbers: %s cannot be filled", v.Type()))
	}
}

func (f *numbers) elements(v reflect.Value) {
	for i := range v.Len() {
		f.fill(v.Index(i))
	}
}

// requireFilled checks the fields of a struct, and of what they have.
func requireFilled(t *testing.T, name string, v reflect.Value) {
	require.Falsef(t, v.IsZero(), "%s is zero", name)
	switch v.Kind() {
	case reflect.Pointer:
		requireFilled(t, name, v.Elem())
	case reflect.Slice:
		require.NotZero(t, v.Len(), name)
		if v.Type().Elem().Kind() == reflect.Struct {
			requireFilled(t, name, v.Index(0))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				requireFilled(t, name+"."+f.Name, v.Field(i))
			}
		}
	}
}

// TestGuests lists the clients of other protocols that came first, with who sends their packets, and counts the others.
func TestGuests(t *testing.T) {
	all := []relay.GuestStatus{{
		Remote: "192.0.2.1:5000", Protocol: "rtsp", Carrier: "udp", Namespace: "live-cam",
		Received: 1, Sent: 2, Kernel: 3, Process: 4, Dropped: 5,
	}}
	list, more := guestsOf(all)
	require.Zero(t, more)
	require.Equal(t, []Guest{{
		Remote: "192.0.2.1:5000", Protocol: "rtsp", Carrier: "udp", Namespace: "live-cam",
		Received: 1, Sent: 2, Kernel: 3, Process: 4, Dropped: 5,
	}}, list)

	for i := range maxGuests + 6 {
		all = append(all, relay.GuestStatus{Remote: fmt.Sprintf("192.0.2.2:%d", i), Publishes: true})
	}
	list, more = guestsOf(all)
	require.Len(t, list, maxGuests)
	require.Equal(t, 7, more)
	require.True(t, list[maxGuests-1].Publishes)
	require.Equal(t, all[maxGuests-1].Remote, list[maxGuests-1].Remote)
}
