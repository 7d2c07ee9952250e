package lab

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

func TestParseConditions(t *testing.T) {
	for text, want := range map[string]Conditions{
		"":                                   {},
		"clean":                              {},
		"rate=3mbit":                         {Rate: 3e6},
		"rate=1.5Mbit,queue=20ms,delay=1m0s": {Rate: 1.5e6, Queue: 20 * time.Millisecond, Delay: time.Minute},
		"loss=2%, duplicate=0.5, reorder=1":  {Loss: 0.02, Duplicate: 0.5, Reorder: 1},
		"mark=3%":                            {Mark: 0.03},
		"reorder=1%,gap=5,hold=1s":           {Reorder: 0.01, ReorderGap: 5, Hold: time.Second},
	} {
		got, err := ParseConditions(text)
		if want.Delay > MaxDelay {
			require.ErrorContains(t, err, "delay: 1m0s: must be between 0s and 10s")
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseConditionsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"loss":             `"loss": must be KEY=VALUE, with a KEY of ` + keys,
		"losses=1%":        "losses: unknown, must be one of " + keys,
		"loss=101%":        `loss: "101%": must be a probability such as 2% or 0.02`,
		"loss=-1":          `loss: "-1": must be a probability such as 2% or 0.02`,
		"loss=NaN":         `loss: "NaN": must be a probability such as 2% or 0.02`,
		"rate=3":           `rate: "3": must be a rate such as 3mbit (bit, kbit, mbit, gbit; at most 32gbit)`,
		"rate=-3mbit":      `rate: "-3mbit": must be a rate such as 3mbit (bit, kbit, mbit, gbit; at most 32gbit)`,
		"rate=1bit":        "rate: 1bit: must be between 8kbit and 32gbit",
		"delay=20":         `delay: time: missing unit in duration "20"`,
		"delay=-1ms":       "delay: -1ms: must be between 0s and 10s",
		"queue=11s":        "queue: 11s: must be between 0s and 10s",
		"hold=-1s":         "hold: -1s: must be between 0s and 10s",
		"gap=65,reorder=1": "gap: 65: must be between 0 and 64",
		"gap=x":            `gap: strconv.Atoi: parsing "x": invalid syntax`,
	} {
		_, err := ParseConditions(text)
		require.EqualError(t, err, want, text)
	}
}

func TestConditionsAsJSON(t *testing.T) {
	want := []Conditions{{Rate: 3e6, Loss: 0.02}, {}}
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, `["rate=3mbit,loss=2%","clean"]`, string(text))
	var got []Conditions
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, want, got)
}

func FuzzParseConditions(f *testing.F) {
	f.Add(Conditions{}.String())
	f.Add(Conditions{Rate: 12_345_678, Queue: time.Second, Delay: 1234567, Loss: 1.0 / 3, Duplicate: 1,
		Reorder: 1e-9, ReorderGap: 64, Hold: 1}.String())
	f.Fuzz(func(t *testing.T, text string) {
		defer testlimit.Start(t, len(text), 1000)()
		c, err := ParseConditions(text)
		if err != nil {
			return
		}
		back, err := ParseConditions(c.String())
		require.NoError(t, err, c.String())
		require.Equal(t, c, back)
	})
}

func TestAddresses(t *testing.T) {
	v4, v6 := downlinkNet.address(subscriberNum(7))
	require.Equal(t, "198.19.1.7/16", v4.String())
	require.Equal(t, "2001:2:0:2::107/64", v6.String())
}
