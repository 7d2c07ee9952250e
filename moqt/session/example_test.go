package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

// clock publishes a track with a single object.
type clock struct{ session.Unsupported }

func (clock) HandleSubscribe(p *session.Publication) {
	if p.Track().Name != "now" {
		_ = p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist, Reason: "there is only now"})
		return
	}
	if p.Accept(moqt.Parameters{}, nil) != nil {
		return // the subscriber has gone
	}
	h := moqt.SubgroupHeader{FirstObject: true, EndOfGroup: true, DefaultPriority: true}
	stream, err := p.OpenSubgroup(p.Context(), h)
	if err != nil {
		return
	}
	payload := "12:00"
	objects := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	b, _ := objects.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(payload))})
	_, _ = stream.Write(append(b, payload...))
	_ = stream.Close()
	_ = p.Done(moqt.DoneTrackEnded, "that was it")
}

// printer prints the payload of the first object of each subgroup.
type printer struct{}

func (printer) HandleSubgroup(g *session.Subgroup) {
	b, err := io.ReadAll(g)
	if err != nil {
		return
	}
	o, _, err := moqt.NewSubgroupParser(moqt.DataLayout1, g.Header, 0).Next(b)
	if err == nil {
		fmt.Printf("group %d: %s\n", g.Header.GroupID, b[o.PayloadStart:o.End])
	}
}

func (printer) HandleDatagram(*moqt.ObjectDatagram) {}

func Example() {
	ctx := context.Background()
	near, far := transporttest.Pipe(transporttest.PipeConfig{}) // or transport.Dial and Listener.Accept
	log := slog.New(slog.DiscardHandler)
	client, _ := session.New(near, session.Config{Authority: "clock.example", Path: "/", Logger: log})
	server, _ := session.New(far, session.Config{Role: session.Server, Handler: clock{}, Logger: log})
	go func() { _ = client.Run(ctx) }()
	go func() { _ = server.Run(ctx) }()
	defer client.Close(moqt.SessionNoError, "")

	track := moqt.FullTrackName{Namespace: moqt.Namespace{"clock.example"}, Name: "now"}
	sub, err := client.Subscribe(ctx, moqt.Subscribe{Track: track}, printer{})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-sub.Context().Done()
	if done, ok := errors.AsType[*session.DoneError](context.Cause(sub.Context())); ok {
		fmt.Println(done)
	}

	track.Name = "yesterday"
	if sub, err = client.Subscribe(ctx, moqt.Subscribe{Track: track}, printer{}); err == nil {
		_, err = sub.Wait(ctx)
	}
	fmt.Println(err)
	// Output:
	// group 0: 12:00
	// subscription ended: TRACK_ENDED: that was it
	// subscribe to clock.2eexample--yesterday: request refused: DOES_NOT_EXIST: there is only now
}
