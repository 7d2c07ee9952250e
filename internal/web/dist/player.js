import"./chunk-3KZUNFWV.js";import"./chunk-PMVBPBWN.js";import"./chunk-P3YTJPAK.js";
