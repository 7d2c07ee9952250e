import"./chunk-CTK52Y6C.js";import"./chunk-OTMLZADQ.js";import"./chunk-P3YTJPAK.js";
