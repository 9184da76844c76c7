package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func done(err error) {
	if err != nil {
		panic(err)
	}
}

func bucket(ctx context.Context, js jetstream.JetStream) {
	kv := must(js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: "B", Description: "a bucket", History: 5, TTL: time.Hour, LimitMarkerTTL: time.Minute,
		Metadata: map[string]string{"owner": "go"},
	}))
	must(kv.Put(ctx, "a", []byte("one")))
	must(kv.PutString(ctx, "a", "two"))
	revision := must(kv.Create(ctx, "b.c", []byte("created")))
	must(kv.Update(ctx, "b.c", []byte("updated"), revision))
	must(kv.Create(ctx, "lock", []byte("mine"), jetstream.KeyTTL(90*time.Second)))
	must(kv.Put(ctx, "gone", []byte("x")))
	done(kv.Delete(ctx, "gone"))
	must(kv.Create(ctx, "back", []byte("first")))
	done(kv.Delete(ctx, "back"))
	must(kv.Create(ctx, "back", []byte("again")))
	must(kv.Put(ctx, "purged", []byte("x")))
	done(kv.Purge(ctx, "purged", jetstream.PurgeTTL(2*time.Minute)))
	must(kv.Put(ctx, "old", []byte("x")))
	done(kv.Purge(ctx, "old"))
	must(kv.Put(ctx, "empty", nil))
	must(kv.Put(ctx, "x/y=z_1-2", []byte{0, 255}))
	fmt.Println(len(must(kv.Keys(ctx))), len(must(kv.History(ctx, "a"))), must(kv.Get(ctx, "b.c")).Revision())
	watch := must(kv.WatchAll(ctx))
	for entry := range watch.Updates() {
		if entry == nil {
			break
		}
	}
	done(watch.Stop())
}

func objects(ctx context.Context, js jetstream.JetStream) {
	store := must(js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: "O", Description: "a store", Metadata: map[string]string{"owner": "go"},
	}))
	meta := jetstream.ObjectMeta{
		Name: "dir/ä b.txt", Description: "text", Headers: nats.Header{"X-One": {"1", "2"}},
		Metadata: map[string]string{"kind": "test"}, Opts: &jetstream.ObjectMetaOptions{ChunkSize: 10},
	}
	must(store.Put(ctx, meta, &short{[]byte("four chunks and a rest of an object")}))
	must(store.PutBytes(ctx, "replaced", []byte("old")))
	info := must(store.PutBytes(ctx, "replaced", []byte("new")))
	must(store.PutBytes(ctx, "empty", nil))
	must(store.PutBytes(ctx, "deleted", []byte("x")))
	done(store.Delete(ctx, "deleted"))
	must(store.AddLink(ctx, "link", info))
	must(store.AddBucketLink(ctx, "bucket", store))
	must(store.PutBytes(ctx, "before", []byte("x")))
	done(store.UpdateMeta(ctx, "before", jetstream.ObjectMeta{Name: "after", Description: "renamed"}))
	fmt.Println(string(must(store.GetBytes(ctx, "link"))), len(must(store.List(ctx))))
}

type short struct{ data []byte }

func (s *short) Read(into []byte) (int, error) {
	n := copy(into[:min(len(into), 7)], s.data)
	s.data = s.data[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func main() {
	nc := must(nats.Connect(os.Args[1], nats.Name("go")))
	js := must(jetstream.New(nc))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if os.Args[2] == "bucket" {
		bucket(ctx, js)
	} else {
		objects(ctx, js)
	}
	done(nc.Drain())
}
