// Package loc reads and writes frames without a container, by the Low Overhead Media Container (draft-ietf-moq-loc-04)
// and by the containers of moq-dev's hang, and makes CMAF of them.
//
// With LOC, an object's payload is one frame as WebCodecs has it, and its properties say the rest: a [Frame] has both.
// [Frame.Properties] and [Parse] write and read the properties. A [Muxer] takes the frames of one track in decode
// order. It waits for a frame with which decoding can start, completes the catalog's gaps from the bitstream, and
// returns an init segment and a chunk for each frame.
//
// Frames come from the network, so the bitstream is parsed only as far as the boxes need it.
package loc
