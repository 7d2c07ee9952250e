import"./chunk-PAWCTV3O.js";import"./chunk-ZHL7ZGA7.js";import"./chunk-P3YTJPAK.js";
