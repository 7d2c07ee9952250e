import"./chunk-KC2T7B55.js";import"./chunk-EN3TWQWO.js";import"./chunk-BQMVTVVF.js";
