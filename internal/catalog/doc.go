// Package catalog reads and writes the JSON catalogs that tell players which tracks a broadcast has.
//
// Players read two formats, from tracks with different names. A publisher writes both:
//
//   - the common catalog format (draft-ietf-moq-catalogformat-01), in the track ".catalog". The init segment is in a
//     track of its own, which the catalog names.
//   - MSF (draft-ietf-moq-msf-01) with CMAF packaging (draft-ietf-moq-cmsf), in the track "catalog". It contains the
//     init segments.
//
// A [Catalog] is what both have in common. [Catalog.Common] and [Catalog.MSF] write it; [Parse] reads either format.
package catalog
