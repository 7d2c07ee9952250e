// Package output writes what the monitor measures as text: for people, as JSON, or for the plots of ppviz.
//
// A [Writer] is a [report.Sink]. Each format has an encoder, which appends the text of one value to a buffer; the
// Writer adds what holds the lines together, and opens its file again when that was rotated. Lines of the formats that
// ePPing also has, have ePPing's fields and spellings, byte for byte.
package output
