import"./chunk-OIMD3TRV.js";import"./chunk-NEKFKIVF.js";
