import"./chunk-KIEZQ5PY.js";import"./chunk-XH6XXEV3.js";import"./chunk-P3YTJPAK.js";
