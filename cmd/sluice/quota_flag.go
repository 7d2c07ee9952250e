package main

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"sluice/internal/bounds"
	"sluice/relay"
)

// quotaFlag is a flag that sets some fields of a quota: "sessions=3,download=20mbit,tracks=none".
type quotaFlag struct{ *relay.Quota }

// String returns "", so that help shows no default: there is one for each name.
func (quotaFlag) String() string { return "" }

func (quotaFlag) Type() string { return "name=limit,…" }

func (f quotaFlag) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		field := f.Field(name)
		if !ok || field == nil {
			return fmt.Errorf("%q: must be one of %s, with = and a limit", part, strings.Join(relay.QuotaNames(), ", "))
		}
		n, err := parseLimit(name, value)
		if err != nil {
			return err
		}
		*field = n
	}
	return nil
}

// noLimit is the value of a quota without limit.
const noLimit = -1

func parseLimit(name, value string) (int, error) {
	switch {
	case value == "none":
		return noLimit, nil
	case name == "upload" || name == "download":
		return parseBitRate(name, value)
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, fmt.Errorf("%s: %q: must be a number, or none", name, value)
	}
	return n, bounds.Check(name, n, 1, math.MaxInt32)
}

var bitRates = []struct {
	unit string
	bits float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}

// parseBitRate reads bits per second.
func parseBitRate(name, value string) (int, error) {
	for _, r := range bitRates {
		number, ok := strings.CutSuffix(value, r.unit)
		if !ok {
			continue
		}
		if f, err := strconv.ParseFloat(number, 64); err == nil && f >= 0 { // not NaN
			bits := int(min(f*r.bits, math.MaxInt64/2))
			return bits, bounds.Check(name, bits, relay.MinBitRate, relay.MaxBitRate)
		}
	}
	return 0, errors.New(name + ": " + strconv.Quote(value) + ": must be a rate per second such as 20mbit " +
		"(units: kbit, mbit, gbit)")
}

// parsePrefixes reads addresses and networks of a flag.
func parsePrefixes(flag string, texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q: must be an address or a network such as 192.0.2.0/24", flag, text)
		}
		list = append(list, p)
	}
	return list, nil
}
