package services_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/agentloop/agentloop/test/services"
)

func TestClusterMissesOneServer(t *testing.T) {
	c := services.ClusterForTest(t)
	ctx := t.Context()
	js := jetStream(t, c.URL())
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	for i, node := range c.Nodes {
		if err := c.Settle(ctx); err != nil {
			t.Fatal(err)
		}
		if err := node.Kill(); err != nil {
			t.Fatal(err)
		}
		// Through those that are left: a new leader takes a while.
		other := jetStream(t, c.Nodes[(i+1)%len(c.Nodes)].URL)
		for {
			if _, err := other.Publish(ctx, "s.a", []byte("x")); err == nil {
				want++
				break
			}
			if ctx.Err() != nil {
				t.Fatal("nothing was stored without one of three servers")
			}
		}
		if err := node.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs < want {
		t.Errorf("%d messages acknowledged, there is %+v (%v)", want, info, err)
	}
}
