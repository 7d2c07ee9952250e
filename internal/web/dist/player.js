import"./chunk-KZGS7YUX.js";import"./chunk-D6RLCDXF.js";import"./chunk-P3YTJPAK.js";
