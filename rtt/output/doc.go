// Package output writes the monitor's results as text: see [Formats].
//
// A [Writer] is a [report.Sink]. Each format has an encoder, which appends the text of one value to a buffer; the
// Writer adds separators, and reopens its file after rotation. In the formats that ePPing also has, lines begin with
// ePPing's fields in ePPing's spelling.
package output
