package moqt

// PriorGroupIDGap returns how many groups before the object's group do not exist, and false if the object does not
// say (draft §12.8).
func (p Properties) PriorGroupIDGap() (groups uint64, ok bool) {
	pair, ok := p.Lookup(PropertyPriorGroupIDGap)
	return pair.Value, ok
}

// PriorObjectIDGap returns how many objects before this one do not exist in its group, and false if the object does
// not say (draft §12.9).
func (p Properties) PriorObjectIDGap() (objects uint64, ok bool) {
	pair, ok := p.Lookup(PropertyPriorObjectIDGap)
	return pair.Value, ok
}

// CheckObject validates p as the Object Properties of the object at l: a ProtocolError where the draft closes the
// session (§1.4.3), a MalformedTrackError where it gives up the track (§2.5.1, §12.7–§12.9).
func (p Properties) CheckObject(l Location) error {
	if len(p) == 0 {
		return nil
	}
	c := objectChecker{location: l}
	err := p.parse(func(pair KeyValuePair) error {
		if pair.Type != PropertyImmutable {
			return c.check(pair)
		}
		if c.immutable++; c.immutable > 1 {
			return malformed("object %s has several immutable properties", l)
		}
		return checkImmutable(pair.Bytes, c.check)
	})
	if err == ErrIncomplete {
		return malformed("properties of object %s end within a key-value-pair", l)
	}
	return err
}

// objectChecker counts the properties of which an object may have one instance only.
type objectChecker struct {
	location                         Location
	immutable, groupGaps, objectGaps int
}

func (c *objectChecker) check(pair KeyValuePair) error {
	switch {
	case isMandatory(pair.Type):
		return malformed("object %s has the mandatory track property %#x", c.location, pair.Type)
	case pair.Type == PropertyPriorGroupIDGap:
		c.groupGaps++
		return c.gap("group", c.groupGaps, pair.Value, c.location.Group)
	case pair.Type == PropertyPriorObjectIDGap:
		c.objectGaps++
		return c.gap("object", c.objectGaps, pair.Value, c.location.Object)
	}
	return nil
}

func (c *objectChecker) gap(what string, instances int, gap, id uint64) error {
	if instances > 1 {
		return malformed("object %s has several prior %s id gaps", c.location, what)
	}
	if gap > id {
		return malformed("object %s has a prior %s id gap of %d", c.location, what, gap)
	}
	return nil
}
