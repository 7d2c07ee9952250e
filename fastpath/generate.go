package fastpath

// The headers of the C library lie in a folder that is named for the architecture.
//go:generate go tool bpf2go -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" -type reason -type stream_phase -type subscriber_state -type stream_state -type record -type send_keys -type copy_counts -type packet_keys -type path -type upstream -type connection_id -type alias_key -type track -type subscription -type stream_key -type subgroup -type downstream_key -type object_key -type object_claim -type key_stream -type neighbor -type endpoint kernel bpf/server_ingress.bpf.c
//go:generate go tool bpf2go -target bpfel -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" egress bpf/client_egress.bpf.c
//go:generate go tool bpf2go -target bpfel -output-suffix _test -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" -type packet_keys -type scratch -type crypto_args -type key_stream crypto bpf/crypto_test.bpf.c
//go:generate go tool bpf2go -target bpfel -output-suffix _test -cflags "-O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" -type scratch -type frame -type walk_result walk bpf/walk_test.bpf.c
