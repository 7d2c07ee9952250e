// What /inside/events sends: the types of server/inside/snapshot.go, as far as the page uses them.

export interface Sent {
  bytes: number;
  kernel_packets: number;
  process_packets: number;
  lost_packets: number;
  again_packets: number;
}

export interface Track {
  id: number;
  scope?: string;
  name: string;
  publishers: number;
  subscribers: number;
  on_fast_path: number;
  bytes: number;
}

export interface Delays {
  starts_ns: number[];
  kernel: number[];
  process: number[];
}

export interface Guest {
  remote: string;
  protocol: string;
  carrier?: string;
  publishes: boolean;
  namespace: string;
  received_bytes: number;
  sent_bytes: number;
  kernel_packets: number;
  process_packets: number;
  dropped: number;
}

export interface Snapshot {
  time: string;
  sessions: number;
  publishers: number;
  viewers: number;
  received_bytes: number;
  sent: Sent;
  fast_path?: Record<string, number>;
  held?: Record<string, number>;
  delays: Delays;
  tracks: Track[];
  more: { tracks: number; subscribers: number; on_fast_path: number; bytes: number };
  guests?: Guest[];
  more_guests?: number;
  upstreams?: { url: string; connected: boolean; error?: string }[];
  cluster?: {
    name: string;
    node: string;
    nodes: { id: string; region?: string; load: number; feeds?: { from: string; tracks: number; rtt_ns?: number }[] }[];
  };
}

export interface Subscriber {
  session: number;
  remote: string;
  transport: string;
  on_fast_path: boolean;
  forward: boolean;
  rendition?: { track: string; renditions: number; switches: number; reason?: string };
  srtt_ns: number;
  min_rtt_ns: number;
  window_bytes: number;
  in_flight_bytes: number;
  sent: Sent;
  declined?: Record<string, number>;
  held?: Record<string, number>;
}

export interface Detail {
  id: number;
  gone?: boolean;
  subscribers: Subscriber[];
  more: number;
}
