package attach

// Hook is where the programs see packets.
type Hook string

// Hooks.
const (
	HookTC     Hook = "tc"     // TCX, or clsact on kernels before 6.6
	HookTCX    Hook = "tcx"    // only TCX
	HookClsact Hook = "clsact" // only clsact
	HookXDP    Hook = "xdp"    // arriving packets by XDP, leaving ones as with HookTC
)

// XDPMode is how the XDP program is attached.
type XDPMode string

// XDP modes.
const (
	XDPUnspecified XDPMode = "unspecified" // the kernel chooses
	XDPNative      XDPMode = "native"
	XDPGeneric     XDPMode = "generic"
)
