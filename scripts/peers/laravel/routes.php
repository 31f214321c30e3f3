<?php

use App\Http\Controllers\Products;
use Illuminate\Support\Facades\Route;

Route::get('/', [Products::class, 'quick']);
Route::get('/slow', [Products::class, 'slow']);
