import"./chunk-NBP3YUTM.js";import"./chunk-GWH7FMDG.js";import"./chunk-KVZGKNO3.js";
