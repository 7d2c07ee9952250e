// Package catalog reads and writes the JSON catalogs that tell players which tracks a broadcast has.
//
// Players read three formats, from tracks with different names. A publisher writes all of them:
//
//   - the common catalog format (draft-ietf-moq-catalogformat-01), in the track ".catalog". The init segment is in a
//     track of its own, which the catalog names. The same object is a catalog of MSF's draft 00.
//   - MSF (draft-ietf-moq-msf-01), with CMAF packaging (draft-ietf-moq-cmsf) or LOC, in the track "catalog". It
//     contains the init segments or the configurations of decoders.
//   - the catalog of moq-dev's hang, in the track "catalog.json".
//
// A [Catalog] is the content that all have in common. [Catalog.Common], [Catalog.MSF] and [Catalog.Hang] write it;
// [Parse] reads any format. [Names] is the order in which players try them. Where one catalog says a thing twice, the
// format's own field counts: selectionParams before the fields of MSF 00, a track's own field before commonTrackFields,
// initData before initRef.
package catalog
